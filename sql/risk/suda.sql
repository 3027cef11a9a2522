-- Scores of special uniques: a record scores for each of its minimal sample uniques, and scores more for a smaller one:
-- (columns - size)!, the number of ways to find it. A record with a high score stays unique whatever an attacker
-- happens to know. With a sampling fraction DIS-SUDA turns scores into the chance that a match is the right one. The
-- statement counts the records of each score.
-- cite: Elliot, Manning, Mayes, Gurd and Bane 2005; Manning, Haglin and Keane 2008; Templ, Kowarik and Meindl 2015
-- measures: score, and the records that have it
-- needs: subsets
SELECT score, COUNT(*) AS records
FROM (
    SELECT found.class_id, SUM(scores.score) AS score
    FROM minimal_uniques AS found
    JOIN subset_scores AS scores ON scores.subset = found.subset
    GROUP BY found.class_id
) AS scored
GROUP BY score
ORDER BY score
