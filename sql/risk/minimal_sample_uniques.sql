-- The records that are alone in their class on a set of quasi-identifiers, and not alone on any smaller subset of it:
-- what makes a record special.
-- cite: Elliot, Manning and Ford 2002; Manning, Haglin and Keane 2008
-- measures: a record, by its class, and the set on which it is a minimal sample unique
-- needs: subsets
-- makes: minimal_uniques
-- The number of a set has one bit for each of its columns. Sets that differ in their first five columns only share a word
-- of 32 bits, one for each of them: so all sets of a record lie in a few words. A bit moves by 1, 2, 4, 8 or 16 when one
-- of these columns is added; any other column leads to another word (other_columns: the bits that are added to a word).
-- What is reached like this from a set on which a record is alone is not minimal.
WITH words AS (
    SELECT class_id, subset >> 5 AS word, BIT_OR(CAST(1 AS BIGINT) << CAST(subset & 31 AS INT)) AS bits
    FROM subset_uniques
    GROUP BY class_id, subset >> 5
),
reached AS (
    SELECT w.class_id, w.word + c.amount AS word, BIT_OR(w.bits) AS bits
    FROM words AS w
    JOIN other_columns AS c ON (w.word & c.amount) = 0
    GROUP BY w.class_id, w.word + c.amount
),
larger AS (
    SELECT
        w.class_id,
        w.word,
        w.bits,
        ((w.bits & 1431655765) << 1)
        | ((w.bits & 858993459) << 2)
        | ((w.bits & 252645135) << 4)
        | ((w.bits & 16711935) << 8)
        | ((w.bits & 65535) << 16)
        | COALESCE(r.bits, 0) AS reached
    FROM words AS w
    LEFT JOIN reached AS r ON r.class_id = w.class_id AND r.word = w.word
),
minimal AS (
    SELECT class_id, word, bits & ~reached AS bits FROM larger WHERE (bits & ~reached) <> 0
)
SELECT s.subset, m.class_id
FROM minimal AS m
JOIN subset_scores AS s ON s.subset >> 5 = m.word
WHERE ((m.bits >> CAST(s.subset & 31 AS INT)) & 1) = 1
