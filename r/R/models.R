# From a formula of R, bounds and levels to a model of Python.

dp_budget <- function(epsilon, delta = 0, ledger = NULL) {
  budget <- python("dpstats.privacy")$PrivacyBudget(epsilon = epsilon, delta = delta, ledger = ledger)
  structure(list(python = budget), class = "dp_budget")
}

dp_lm <- function(formula, data, bounds, levels = NULL, ...) {
  dp_glm(formula, stats::gaussian(), data, bounds, levels, ...)
}

dp_glm <- function(formula, family, data, bounds, levels = NULL, ...) {
  declared <- declare(formula, bounds, as_text_levels(levels, data))
  check_response(formula, data)
  columns <- to_python_columns(data, all.vars(formula))
  arguments <- c(
    list(declared$formula, columns, bounds = declared$bounds, levels = declared$levels),
    to_python_parameters(list(...))
  )
  # The formula is kept as text: its environment holds the rows of the caller.
  columns <- all.vars(formula[[length(formula)]])
  if (is.function(family)) family <- family()
  new_fit(do.call(estimator(family)$from_formula, arguments), declared$formula, columns, family$link)
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
  check_formula(formula)
  text <- paste(deparse(formula, width.cutoff = 500L), collapse = " ")
  text <- gsub("\\b(as\\.)?factor\\(", "C(", gsub("^", "**", text, fixed = TRUE), perl = TRUE)
  list(formula = text, bounds = lapply(bounds, as.double), levels = if (length(levels) > 0) lapply(levels, as_levels))
}

# What R reads otherwise than Python, or takes from the rows, stops here.
check_formula <- function(formula) {
  called <- setdiff(all.names(formula), all.vars(formula))
  if ("." %in% all.vars(formula)) {
    stop("formula must name its columns, got `.`. Write them out: which columns a model has must be public.", call. = FALSE)
  }
  if ("%in%" %in% called) {
    stop("formula must not have %in%. Write a nested factor as b + a:b.", call. = FALSE)
  }
  if ("offset" %in% called) {
    stop("formula must not have offset(). For a rate, give exposure = \"column\" to dp_glm.", call. = FALSE)
  }
}

# A factor crosses as text, and so do its levels: 1 is "1".
as_text_levels <- function(levels, data) {
  if (length(levels) == 0) return(levels)
  is_text <- vapply(names(levels), function(name) is.factor(data[[name]]) || is.character(data[[name]]), logical(1))
  levels[is_text] <- lapply(levels[is_text], as.character)
  levels
}

check_response <- function(formula, data) {
  outcome <- if (length(formula) == 3) formula[[2]]
  if (is.name(outcome) && is.factor(data[[as.character(outcome)]])) {
    name <- as.character(outcome)
    stop(
      "outcome ", name, " must be numbers, got a factor. Name its ones, such as data$", name, " <- as.numeric(data$", name,
      " == \"yes\").",
      call. = FALSE
    )
  }
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
