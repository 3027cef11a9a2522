// Where to connect, as libpq's variables say it, and how a suite tells what it found.
exports.settings = {
  host: process.env.PGHOST,
  port: Number(process.env.PGPORT),
  user: process.env.PGUSER,
  password: process.env.PGPASSWORD,
  database: process.env.PGDATABASE,
};

// `same` must be equal on every server; of `noisy`, which tells of persons, only the shape is.
exports.tell = async (suite) => {
  const found = await suite();
  process.stdout.write(JSON.stringify(found));
};
