# dpstats from R, by way of reticulate: see coming-from.md. Needs R, reticulate, and a Python that has dpstats.
library(reticulate)
means <- import("dpstats.means")
privacy <- import("dpstats.privacy")
show <- function(x) writeLines(py_str(x)) # as Python prints it

budget <- privacy$PrivacyBudget(epsilon = 1, delta = 0)
mean <- means$ClippedMean(epsilon = 0.5, bounds = c(0, 100), budget = budget)
show(mean$plan(50L, 1L)) # what it will release, before any data

# A list of columns arrives with every version of reticulate: arrays need one that knows numpy 2.
rows <- import("pandas")$DataFrame(as.list(cars["speed"]))
invisible(mean$fit(rows))
show(mean$summary())
show(mean$confidence_interval())
show(budget$remaining)
