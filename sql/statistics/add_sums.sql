-- Sums of two kinds of contributors together. No contributor is in both.
SELECT
    cell,
    SUM(records) AS records,
    SUM(contributors) AS contributors,
    SUM(protected) AS protected,
    SUM(value) AS value,
    MIN(lone) AS lone
FROM (SELECT * FROM sums UNION ALL SELECT * FROM other_sums) AS both_sums
GROUP BY cell
