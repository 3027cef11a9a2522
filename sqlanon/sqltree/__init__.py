"""Build SQL: small trees for shapes, and the files of `sql/` bound to parameters and relations."""
