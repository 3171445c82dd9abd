"""Running a model and keeping what its heads did, checked against what the model itself returned."""
