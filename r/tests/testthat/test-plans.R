bounds <- list(x = c(0, 1), y = c(-3, 8))

test_that("a plan needs no data, and is the plan of the fit", {
  before <- plan(y ~ x + C(g), n = 200, bounds = bounds, levels = list(g = c("a", "b")), random_state = 1)
  rows <- data.frame(x = runif(200), y = rnorm(200), g = c("a", "b"))
  fit <- dp_lm(y ~ x + C(g), rows, bounds, list(g = c("a", "b")), random_state = 1)
  expect_identical(sub(" \\[simulated.*?\\]", "", plan(fit)$text), before$text)
  expect_equal(c(before$epsilon, before$delta), c(1, 1e-6))
  expect_gt(before$noise_ratio, 0)
  expect_output(print(before), "Release plan for n = 200, d = 2")
})

test_that("the plan of a logistic regression needs no bounds of the outcome", {
  expect_output(print(plan(k ~ x, n = 500, bounds = bounds["x"], family = binomial())), "Release plan")
})
