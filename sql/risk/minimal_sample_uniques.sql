-- The records that are alone in their class on a set of quasi-identifiers, and not alone on any smaller set in it: what
-- makes a record special. Read for all sets of one size; the smaller ones lack one column of them.
-- cite: Elliot, Manning and Ford 2002; Manning, Haglin and Keane 2008
-- measures: a record, by its class, and the set on which it is a minimal sample unique
-- needs: subsets
-- makes: minimal_uniques
SELECT own.subset, own.class_id
FROM subset_classes AS own
WHERE own.records = 1
    AND NOT EXISTS (
        SELECT 1
        FROM smaller_classes AS smaller
        JOIN subset_parts AS parts ON parts.part = smaller.subset
        WHERE smaller.records = 1 AND parts.subset = own.subset AND smaller.class_id = own.class_id
    )
