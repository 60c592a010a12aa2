# dpstats from R, by way of reticulate: see coming-from.md. Needs R, reticulate, and a Python that has dpstats.
library(reticulate)
means <- import("dpstats.means")
privacy <- import("dpstats.privacy")
show <- function(x) writeLines(py_str(x)) # as Python prints it

budget <- privacy$PrivacyBudget(epsilon = 1, delta = 0)
mean <- means$ClippedMean(epsilon = 0.5, bounds = c(0, 100), budget = budget)
show(mean$plan(50L, 1L)) # what it will release, before any data

invisible(mean$fit(as.matrix(cars["speed"])))
show(mean$summary())
print(c(mean$confidence_interval()$low, mean$confidence_interval()$high))
show(budget$remaining)
