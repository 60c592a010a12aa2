"""The only way from exact integers to a release: noise exists only through a plan that has been charged."""
