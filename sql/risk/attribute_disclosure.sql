-- What the classes tell about a sensitive value: how often an attacker is right who finds the class of a person and
-- guesses its most frequent value, compared with an attacker who knows only the distribution of the whole table.
-- cite: Machanavajjhala et al. 2006; Lambert 1993
-- measures: guessed, the share of records that are guessed rightly; guessed_without, the share without the classes;
--   highest, the surest guess; disclosed, the share of records in classes that hold one value only
-- needs: sensitive
SELECT
    CAST(SUM(most) AS DOUBLE PRECISION) / SUM(records) AS guessed,
    (SELECT CAST(MAX(t.records) AS DOUBLE PRECISION) / SUM(t.records) FROM totals AS t) AS guessed_without,
    MAX(CAST(most AS DOUBLE PRECISION) / records) AS highest,
    CAST(SUM(CASE WHEN different = 1 THEN records ELSE 0 END) AS DOUBLE PRECISION) / SUM(records) AS disclosed
FROM (
    SELECT c.class_id, c.records, MAX(v.records) AS most, COUNT(*) AS different
    FROM classes AS c
    JOIN class_values AS v ON v.class_id = c.class_id
    GROUP BY c.class_id, c.records
) AS guesses
