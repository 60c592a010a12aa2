# dpstats from R, by way of reticulate: see coming-from.md. Needs R, reticulate, and a Python that has dpstats.
library(reticulate)
means <- import("dpstats.means")
privacy <- import("dpstats.privacy")

budget <- privacy$PrivacyBudget(epsilon = 1, delta = 0)
mean <- means$ClippedMean(epsilon = 0.5, bounds = c(0, 100), budget = budget)
print(mean$plan(50L, 1L))

mean$fit(as.matrix(cars["speed"]))
print(mean$summary())
print(unlist(mean$confidence_interval()$low))
print(budget$remaining)
