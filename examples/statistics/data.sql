-- Enterprises as a business register has them, none of them real: few are large, most are small, and some belong to the
-- same group. Deterministic, so that every run prints the same numbers.
CREATE MACRO draw(i, seed) AS (md5_number_lower(CAST(i AS TEXT) || '/' || CAST(seed AS TEXT)) % 1000003) / 1000003.0;
CREATE TABLE enterprises AS
WITH draws AS (
    SELECT
        i AS enterprise_id,
        draw(i, 1) AS place,
        draw(i, 2) AS trade,
        draw(i, 3) AS size,
        draw(i, 4) AS luck,
        draw(i, 5) AS owned
    FROM range(2600) AS t (i)
)

SELECT
    enterprise_id,
    CASE WHEN owned < 0.1 THEN 'G' || CAST(floor(owned * 1500) AS INT) ELSE 'E' || enterprise_id END AS group_id,
    ['EL30', 'EL52', 'EL43', 'EL61', 'EL62', 'EL41'][1 + CAST(floor(6 * place ** 2.5) AS INT)] AS region,
    ['C10', 'C24', 'C29', 'G46', 'G47', 'H49', 'H50', 'I55', 'I56'][1 + CAST(floor(9 * trade ** 3) AS INT)] AS branch,
    CASE WHEN size > 0.97 THEN 'large' WHEN size > 0.8 THEN 'medium' ELSE 'small' END AS size,
    CAST(round(40 / (1.0002 - size) ** 0.9 / (1.001 - luck) ** 0.8) AS BIGINT) AS turnover
FROM draws;
