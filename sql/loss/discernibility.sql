-- Discernibility: each record costs the size of its class; a suppressed record costs the size of the table.
-- cite: Skowron and Rauszer 1992; Bayardo and Agrawal 2005
-- measures: pairs of records that cannot be told apart; worse when larger
-- monotone: no, with suppression
SELECT
    SUM(
        CAST(c.records AS DOUBLE PRECISION) * CASE WHEN c.kept = 1 THEN c.records ELSE n.records END
    ) AS loss
FROM recoded_classes AS c
CROSS JOIN (SELECT SUM(records) AS records FROM recoded_classes) AS n
