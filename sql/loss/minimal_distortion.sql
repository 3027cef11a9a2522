-- Minimal distortion: one unit for each level that a value is generalized by, added up over all cells; a
-- suppressed record costs the full height in each attribute.
-- cite: Samarati 2001; Sweeney 2002
-- measures: units of distortion; worse when larger
-- monotone: yes; not with suppression
-- traits: nodes
SELECT SUM(records * CASE WHEN kept = 1 THEN level ELSE height END) AS loss FROM recoded_values
