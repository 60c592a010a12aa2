rows <- local({
  set.seed(1)
  x <- runif(4000)
  g <- sample(c("a", "b"), 4000, replace = TRUE)
  data.frame(x, g = factor(g), y = 1 + 2 * x + (g == "b") + rnorm(4000), k = rbinom(4000, 1, plogis(x - 0.5)))
})
bounds <- list(x = c(0, 1), y = c(-3, 8))
levels <- list(g = c("a", "b"))

test_that("a linear model has the coefficients of lm, with intervals", {
  fit <- dp_lm(y ~ x + factor(g), rows, bounds, levels, epsilon = 2, unknown = "error", random_state = 1)
  expect_named(coef(fit), c("(Intercept)", "x", "C(g)[T.b]"))
  expect_lt(max(abs(coef(fit) - coef(lm(y ~ x + g, rows)))), 0.2)
  expect_identical(nobs(fit), 4000L)
  expect_identical(dimnames(vcov(fit)), list(names(coef(fit)), names(coef(fit))))
  expect_identical(colnames(confint(fit)), c("2.5 %", "97.5 %"))
  expect_true(all(confint(fit, level = 0.99)[, 2] > confint(fit)[, 2]))
  expect_identical(nrow(confint(fit, "x")), 1L)
})

test_that("tidy has the columns that broom's has", {
  fit <- dp_lm(y ~ x + C(g), rows, bounds, levels, random_state = 1)
  expect_named(tidy(fit), c("term", "estimate", "std.error", "statistic", "p.value"))
  table <- tidy(fit, conf.int = TRUE, conf.level = 0.9)
  expect_identical(table$term, names(coef(fit)))
  expect_true(all(table$conf.low < table$estimate & table$estimate < table$conf.high))
  expect_equal(table$statistic, table$estimate / table$std.error)
})

test_that("powers and a missing intercept are R's", {
  fit <- dp_lm(y ~ x + I(x^2) - 1, rows, bounds, random_state = 1)
  expect_named(coef(fit), c("x", "I(x ** 2)"))
})

test_that("other families are there, and unknown ones are named", {
  fit <- dp_glm(k ~ x, binomial(), rows, list(x = c(0, 1)), random_state = 1)
  expect_named(coef(fit), c("(Intercept)", "x"))
  rows$v <- round(exp(rows$y / 4))
  for (family in list(poisson(), Gamma("log"))) {
    fit <- dp_glm(v ~ x, family, rows, list(x = c(0, 1), v = c(0, 20)), random_state = 1)
    expect_gt(coef(fit)[["x"]], 0)
  }
  expect_error(dp_glm(k ~ x, binomial("probit"), rows, bounds), "family must be one of.*got binomial probit")
})

test_that("missing rows of whole numbers are missing", {
  rows$n <- as.integer(round(10 * rows$x))
  rows$n[1:50] <- NA
  expect_error(dp_lm(y ~ n, rows, c(bounds, list(n = c(0, 10))), random_state = 1), "NaN|missing|finite")
  fit <- dp_lm(y ~ n, rows, c(bounds, list(n = c(0, 10))), missing = "drop", random_state = 1)
  expect_lt(abs(coef(fit)[["n"]] - 0.2), 0.1)
})

test_that("a fit keeps no rows", {
  fit <- dp_lm(y ~ x, rows, bounds, random_state = 1)
  expect_type(fit$formula, "character")
  fit$python <- NULL
  expect_lt(length(serialize(fit, NULL)), 10000)
})

test_that("a budget is charged, and refuses more than it has", {
  budget <- dp_budget(1, 1e-5)
  dp_lm(y ~ x, rows, bounds, epsilon = 0.75, delta = 1e-6, budget = budget)
  expect_output(print(budget), "remaining: \\(epsilon = 0.25")
  expect_error(dp_lm(y ~ x, rows, bounds, epsilon = 0.75, budget = budget), "Nothing was charged")
})

test_that("ratios are exponentials", {
  fit <- dp_glm(k ~ x, binomial(), rows, list(x = c(0, 1)), random_state = 1)
  table <- tidy(fit, conf.int = TRUE)
  ratios <- tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  for (name in c("estimate", "conf.low", "conf.high")) expect_equal(ratios[[name]], exp(table[[name]]))
  expect_equal(ratios$std.error, table$std.error)
})

test_that("methods answer, or stop with the reason", {
  fit <- dp_lm(y ~ x + C(g), rows, bounds, levels, unknown = "error", random_state = 1)
  expect_identical(df.residual(fit), 3997L)
  expect_named(glance(fit), c("nobs", "df.residual", "epsilon", "delta"))
  expect_identical(dimnames(coef(summary(fit))), list(names(coef(fit)), c("Estimate", "Std. Error", "z value", "Pr(>|z|)")))
  new <- data.frame(x = c(0.1, 0.9), g = c("a", "b"))
  expected <- coef(fit)[[1]] + coef(fit)[["x"]] * new$x + coef(fit)[[3]] * (new$g == "b")
  expect_equal(predict(fit, new), expected)
  expect_error(predict(fit), "newdata must be given")
  expect_error(fitted(fit), "not released")
  expect_error(residuals(fit), "not released")
  expect_error(update(fit, . ~ x), "another release")
})

test_that("predictions are of the linear predictor or of the mean, as for glm", {
  new <- data.frame(x = c(0.1, 0.9))
  fit <- dp_glm(k ~ x, binomial(), rows, bounds, random_state = 1)
  link <- coef(fit)[[1]] + coef(fit)[["x"]] * new$x
  expect_equal(predict(fit, new), link)
  expect_equal(predict(fit, new, type = "response"), plogis(link))
  counts <- transform(rows, k = rpois(4000, exp(x)))
  fit <- dp_glm(k ~ x, poisson(), counts, list(x = c(0, 1), k = c(0, 20)), random_state = 1)
  link <- coef(fit)[[1]] + coef(fit)[["x"]] * new$x
  expect_equal(predict(fit, new), link)
  expect_equal(predict(fit, new, type = "response"), exp(link))
  expect_error(predict(fit, new, type = "terms"), "should be one of")
})

test_that("rows with an undeclared level are left out, or refused", {
  other <- transform(rows, g = factor(ifelse(x > 0.8, "other", as.character(g))))
  fit <- dp_lm(y ~ x + g, other, bounds, levels, epsilon = 50, random_state = 1)
  expect_lt(abs(nobs(fit) - sum(other$g != "other")), 30)
  expect_error(dp_lm(y ~ x + g, other, bounds, levels, unknown = "error"), "declared levels only")
})

test_that("formulas that mean something else in Python are refused", {
  expect_error(dp_lm(y ~ x %in% g, rows, bounds, levels), "must not have %in%")
  expect_error(dp_lm(y ~ ., rows, bounds, levels), "must name its columns")
  expect_error(dp_glm(k ~ x + offset(log(x)), poisson(), rows, bounds), "exposure")
  expect_error(dp_glm(g ~ x, binomial(), rows, bounds), "outcome g must be numbers, got a factor")
})

test_that("levels of a factor may be written as numbers", {
  rows$dose <- factor(sample(c(1, 2), 4000, replace = TRUE))
  fit <- dp_lm(y ~ C(dose), rows, bounds, list(dose = c(1, 2)), random_state = 1)
  expect_named(coef(fit), c("(Intercept)", "C(dose)[T.2]"))
})
