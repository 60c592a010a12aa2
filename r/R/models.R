# From a formula of R, bounds and levels to a model of Python.

dp_budget <- function(epsilon, delta = 0, ledger = NULL) {
  budget <- python("dpstats.privacy")$PrivacyBudget(epsilon = epsilon, delta = delta, ledger = ledger)
  structure(list(python = budget), class = "dp_budget")
}

dp_lm <- function(formula, data, bounds, levels = NULL, ...) {
  dp_glm(formula, stats::gaussian(), data, bounds, levels, ...)
}

dp_glm <- function(formula, family, data, bounds, levels = NULL, ...) {
  declared <- declare(formula, bounds, levels)
  columns <- to_python_columns(data, all.vars(formula))
  arguments <- c(
    list(declared$formula, columns, bounds = declared$bounds, levels = declared$levels),
    to_python_parameters(list(...))
  )
  # The formula is kept as text: its environment holds the rows of the caller.
  new_fit(do.call(estimator(family)$from_formula, arguments), declared$formula)
}

estimator <- function(family) {
  if (is.function(family)) family <- family()
  known <- c(
    "gaussian identity" = "PrivateLinearRegression", "binomial logit" = "PrivateLogisticRegression",
    "poisson log" = "PrivateCountRegression", "Gamma log" = "PrivateGammaRegression"
  )
  asked <- paste(family$family, family$link)
  if (!asked %in% names(known)) {
    stop("family must be one of ", toString(names(known)), ", got ", asked, call. = FALSE)
  }
  python("dpstats.regression")[[known[[asked]]]]
}

declare <- function(formula, bounds, levels) {
  text <- paste(deparse(formula, width.cutoff = 500L), collapse = " ")
  text <- gsub("\\b(as\\.)?factor\\(", "C(", gsub("^", "**", text, fixed = TRUE), perl = TRUE)
  list(formula = text, bounds = lapply(bounds, as.double), levels = if (length(levels) > 0) lapply(levels, as_levels))
}

as_levels <- function(values) {
  whole <- is.numeric(values) && all(values == round(values))
  as.list(if (whole) as.integer(values) else if (is.factor(values)) as.character(values) else values)
}

to_python_parameters <- function(given) {
  if (!is.null(given$budget)) given$budget <- given$budget$python
  if (!is.null(given$random_state)) given$random_state <- as.integer(given$random_state)
  given
}

print.dp_budget <- function(x, ...) {
  writeLines(c(paste("total:    ", reticulate::py_str(x$python$total)), paste("remaining:", reticulate::py_str(x$python$remaining))))
  invisible(x)
}
