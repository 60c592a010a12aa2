# What a fit says, in the shapes that R users know.

new_fit <- function(model, formula, columns, link) {
  terms <- rownames_of(model)
  structure(
    list(
      python = model, formula = formula, columns = columns, link = link, text = reticulate::py_str(model$summary()),
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

tidy.dp_fit <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, ...) {
  model <- x$python
  table <- data.frame(
    term = names(x$coefficients), estimate = unname(x$coefficients), std.error = unname(sqrt(diag(x$vcov))),
    statistic = numbers(model$tvalues$to_numpy()), p.value = numbers(model$pvalues$to_numpy())
  )
  if (conf.int) {
    intervals <- confint.dp_fit(x, level = conf.level)
    table <- cbind(table, conf.low = unname(intervals[, 1]), conf.high = unname(intervals[, 2]))
  }
  # As broom does, the standard error stays on the scale of the model.
  shown <- intersect(c("estimate", "conf.low", "conf.high"), names(table))
  if (exponentiate) table[shown] <- lapply(table[shown], exp)
  table
}

glance.dp_fit <- function(x, ...) {
  privacy <- x$python$privacy_
  data.frame(
    nobs = nobs.dp_fit(x), df.residual = df.residual.dp_fit(x),
    epsilon = reticulate::py_to_r(privacy$epsilon), delta = reticulate::py_to_r(privacy$delta)
  )
}

df.residual.dp_fit <- function(object, ...) object$nobs - length(object$coefficients)

predict.dp_fit <- function(object, newdata, type = c("link", "response"), ...) {
  if (missing(newdata)) {
    stop("newdata must be given: a fit keeps no rows, and predictions of private rows are private.", call. = FALSE)
  }
  # As for glm: the linear predictor, or the mean outcome, which is the probability of a binary one.
  rows <- to_python_columns(newdata, object$columns)
  if (object$link == "logit") {
    log_odds <- numbers(object$python$decision_function(rows))
    return(if (match.arg(type) == "link") log_odds else stats::plogis(log_odds))
  }
  means <- numbers(object$python$predict(rows))
  if (match.arg(type) == "link" && object$link == "log") log(means) else means
}

fitted.dp_fit <- function(object, ...) {
  stop("fitted values are of single rows, and not released. Use predict(fit, newdata) of public rows.", call. = FALSE)
}

residuals.dp_fit <- function(object, ...) {
  stop("residuals are of single rows, and not released. print(fit) has their scale.", call. = FALSE)
}

update.dp_fit <- function(object, ...) {
  stop("update would fit again, which is another release. Call dp_lm or dp_glm, and count its cost.", call. = FALSE)
}

print.dp_fit <- function(x, ...) {
  writeLines(x$text)
  invisible(x)
}

summary.dp_fit <- function(object, ...) {
  table <- tidy.dp_fit(object)
  coefficients <- as.matrix(table[-1])
  dimnames(coefficients) <- list(table$term, c("Estimate", "Std. Error", "z value", "Pr(>|z|)"))
  structure(list(coefficients = coefficients, text = object$text), class = "summary.dp_fit")
}

coef.summary.dp_fit <- function(object, ...) object$coefficients

print.summary.dp_fit <- print.dp_fit
