# What a fit says, in the shapes that R users know.

new_fit <- function(model, formula) {
  terms <- rownames_of(model)
  structure(
    list(
      python = model, formula = formula, text = reticulate::py_str(model$summary()),
      coefficients = stats::setNames(numbers(model$params_), terms),
      vcov = matrix(numbers(model$params_cov_$ravel()), length(terms), dimnames = list(terms, terms)),
      nobs = reticulate::py_to_r(model$nobs)
    ),
    class = "dp_fit"
  )
}

rownames_of <- function(model) {
  intercept <- if (reticulate::py_to_r(model$fit_intercept)) "(Intercept)"
  c(intercept, unlist(reticulate::py_to_r(model$names_)))
}

numbers <- function(array) as.double(unlist(reticulate::py_to_r(array$tolist())))

coef.dp_fit <- function(object, ...) object$coefficients

vcov.dp_fit <- function(object, ...) object$vcov

nobs.dp_fit <- function(object, ...) object$nobs

confint.dp_fit <- function(object, parm, level = 0.95, ...) {
  alpha <- (1 - level) / 2
  ends <- paste(format(100 * c(alpha, 1 - alpha), trim = TRUE, digits = 3), "%")
  intervals <- matrix(
    numbers(object$python$conf_int(alpha = 1 - level)$to_numpy()$ravel()),
    ncol = 2, byrow = TRUE, dimnames = list(names(object$coefficients), ends)
  )
  if (missing(parm)) intervals else intervals[parm, , drop = FALSE]
}

tidy.dp_fit <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  model <- x$python
  table <- data.frame(
    term = names(x$coefficients), estimate = unname(x$coefficients), std.error = unname(sqrt(diag(x$vcov))),
    statistic = numbers(model$tvalues$to_numpy()), p.value = numbers(model$pvalues$to_numpy())
  )
  if (!conf.int) return(table)
  intervals <- confint.dp_fit(x, level = conf.level)
  cbind(table, conf.low = unname(intervals[, 1]), conf.high = unname(intervals[, 2]))
}

print.dp_fit <- function(x, ...) {
  writeLines(x$text)
  invisible(x)
}

summary.dp_fit <- function(object, ...) object
