# A plan: what a fit releases and what it costs, before any data or after the fit.

plan <- function(x, ...) UseMethod("plan")

plan.formula <- function(x, n, bounds, levels = NULL, family = stats::gaussian(), unknown = "drop", ...) {
  declared <- declare(x, bounds, levels)
  parsed <- python("dpstats.regression.formula")$parse(
    declared$formula,
    bounds = declared$bounds, levels = declared$levels
  )
  arguments <- c(
    list(x_bounds = parsed$x_bounds, fit_intercept = parsed$has_intercept), to_python_parameters(list(...))
  )
  # A fit counts the rows with declared levels, as rows without a missing entry.
  counts <- reticulate::py_to_r(parsed$has_labels) && unknown == "drop"
  if (counts && is.null(arguments$missing)) arguments$missing <- "drop"
  if (!is_binomial(family)) arguments$y_bounds <- parsed$y_bounds
  model <- do.call(estimator(family), arguments)
  new_plan(model$plan(as.integer(n), length(reticulate::py_to_r(parsed$names))))
}

plan.dp_fit <- function(x, ...) new_plan(x$python$plan_)

print.dp_plan <- function(x, ...) {
  writeLines(x$text)
  invisible(x)
}

new_plan <- function(plan) {
  guarantee <- plan$guarantee
  structure(
    list(
      text = reticulate::py_str(plan),
      epsilon = reticulate::py_to_r(guarantee$epsilon), delta = reticulate::py_to_r(guarantee$delta),
      noise_ratio = reticulate::py_to_r(plan$noise_ratio)
    ),
    class = "dp_plan"
  )
}

is_binomial <- function(family) identical((if (is.function(family)) family() else family)$family, "binomial")
