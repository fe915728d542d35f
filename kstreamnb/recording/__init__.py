"""Records every step of a run so that it can be read forwards and backwards."""
