"""Evidence: what was measured on a table or a release, inside the engine that holds it."""
