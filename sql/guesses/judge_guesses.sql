-- How often an attacker is right, of those about whom they guess, and how often somebody is who guesses about the same
-- persons from the margins: a row for the persons of the source (held 0) and one for the control group (held 1). Where
-- persons are known, each counts once, by the share of their rows that is guessed rightly.
-- param: persons integer >= 0 <= 1: 1 where persons are known, 0 where each record is one
-- measures: rightly, how many of the guesses are right
-- makes: rates
SELECT
    held,
    SUM(CASE WHEN :persons = 1 THEN 1 ELSE records END) AS targets,
    SUM(CASE WHEN :persons = 0 THEN guessed WHEN guessed > 0 THEN 1 ELSE 0 END) AS guessed,
    SUM(CAST(rightly AS DOUBLE PRECISION) / CASE WHEN :persons = 1 AND guessed > 0 THEN guessed ELSE 1 END) AS rightly,
    SUM(CAST(by_margins AS DOUBLE PRECISION) / CASE WHEN :persons = 1 AND guessed > 0 THEN guessed ELSE 1 END)
        AS by_margins
FROM (
    SELECT
        p.held,
        p.person,
        SUM(p.records) AS records,
        SUM(CASE WHEN g.attacked IS NULL THEN 0 ELSE p.records END) AS guessed,
        SUM(COALESCE(g.attacked, 0) * p.records) AS rightly,
        SUM(CASE WHEN g.attacked IS NULL THEN 0 ELSE COALESCE(g.by_margins, 0) * p.records END) AS by_margins
    FROM known_persons AS p
    LEFT JOIN guesses AS g ON g.group_id = p.group_id AND g.truth = p.value
    GROUP BY p.held, p.person
) AS judged
GROUP BY held
ORDER BY held
