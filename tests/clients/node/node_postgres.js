const { Client, Pool } = require("pg");
const { settings, tell } = require("./settings");

tell(async () => {
  const client = new Client(settings);
  await client.connect();
  const rows = async (...asked) => (await client.query(...asked)).rows;
  const code = async (...asked) => client.query(...asked).then(() => null, (error) => error.code);
  const same = {
    simple: await rows("SELECT city, population FROM cities ORDER BY city"),
    list: await rows("SELECT city FROM cities WHERE city IN ($1,$2) ORDER BY 1", ["Athens", "Ōsaka"]),
    sum: await rows("SELECT $1::int+$2::int AS n", [4, 5]),
    any: await rows("SELECT id, born, seen, active, income FROM people_released WHERE id = ANY($1) ORDER BY id", [[7, 10]]),
    missing: await rows("SELECT id FROM people_released WHERE born IS NOT NULL AND name NOT LIKE 'person 9%' ORDER BY id LIMIT $1", [3]),
    types: (await client.query("SELECT * FROM people_released LIMIT 0")).fields.map((field) => [field.name, field.dataTypeID === 1043 ? 25 : field.dataTypeID]),
    unknown: await code("SELECT nothing FROM cities"),
    wrong: await code("SELECT id FROM people_released WHERE id = $1", ["eight"]),
    pid: (await rows("SELECT pg_backend_pid() AS pid"))[0].pid === client.processID,
    json: (await rows("SELECT js FROM kinds ORDER BY id"))[0],
    array: (await client.query({ text: "SELECT id, grade FROM people_released WHERE id < $1 ORDER BY id", values: [4], rowMode: "array" })).rows,
  };
  const named = { name: "by-city", text: "SELECT count(*)::int AS n FROM people_released WHERE city = $1" };
  same.prepared = [await rows({ ...named, values: ["Athens"] }), await rows({ ...named, values: ["Kraków"] })];
  await client.query("BEGIN");
  same.failed = await code("SELECT nothing");
  same.aborted = await code("SELECT 1");
  await client.query("ROLLBACK");
  const private_ = await rows("SELECT ward, count(*)::int AS n FROM visits WHERE cost IN ($1,$2) OR cost<$3 GROUP BY ward ORDER BY ward", [60, 61, 50]);
  await client.end();
  const pool = new Pool({ ...settings, max: 3 });
  const many = await Promise.all([1, 2, 3, 4, 5, 6].map((id) => pool.query("SELECT name FROM people_released WHERE id=$1", [id])));
  same.pool = many.map((each) => each.rows[0].name);
  await pool.end();
  return { same, noisy: private_.map((row) => [row.ward, typeof row.n]) };
});
