"""Full-domain generalization: compress the rows once, then measure, bound and search nodes of the lattice."""
