-- Over the join of a person table with its child tables along foreign keys, every class of quasi-identifier
-- values is shared by at least k owners. Counted in owners, never in joined rows.
-- cite: Nergiz, Clifton and Nergiz 2007
-- param: k integer >= 2: fewest owners allowed in a class
-- measures: owners in the class; worse when smaller
-- needs: person, joins
-- monotone: yes, also under record suppression
SELECT class_id, records AS measured FROM classes WHERE records < :k
