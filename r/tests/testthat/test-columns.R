python_list <- function(x) reticulate::py_to_r(dpstats:::to_python_column(x, "x")$tolist())

test_that("a missing whole number is missing, and not -2147483648", {
  text <- reticulate::py_str(dpstats:::to_python_column(c(1L, NA, 3L), "x")$tolist())
  expect_identical(text, "[1.0, nan, 3.0]")
  expect_identical(python_list(c(1, NA, 3)), c(1, NaN, 3))
  expect_identical(python_list(c(TRUE, NA, FALSE)), c(1, NaN, 0))
})

test_that("missing text and missing levels of a factor are None", {
  expect_identical(reticulate::py_str(dpstats:::to_python_column(c("a", NA), "x")), "['a', None]")
  expect_identical(reticulate::py_str(dpstats:::to_python_column(factor(c("b", NA)), "x")), "['b', None]")
})

test_that("numbers cross without rounding", {
  x <- c(0.1, .Machine$double.xmax, 5e-324, -0, Inf)
  expect_identical(python_list(x), x)
})

test_that("columns whose numbers mean something else are rejected", {
  expect_error(dpstats:::to_python_column(Sys.Date(), "day"), "column day must be numeric.*got Date")
  expect_error(dpstats:::to_python_column(structure(1, class = "integer64"), "id"), "got integer64")
  expect_error(dpstats:::to_python_columns(cars, c("speed", "weight")), "lacks weight")
})
