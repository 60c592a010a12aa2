"""The only way from a statistic to a release: noise exists only through a plan that has been charged."""
