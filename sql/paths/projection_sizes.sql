-- How many persons have each projection of an adversary.
SELECT adversary, projection, COUNT(*) AS persons FROM projections GROUP BY adversary, projection
