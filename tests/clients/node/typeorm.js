require("reflect-metadata");
const { DataSource, EntitySchema, In, IsNull, Like, Not } = require("typeorm");
const { settings, tell } = require("./settings");

const City = new EntitySchema({
  name: "City", tableName: "cities",
  columns: { city: { type: "text", primary: true }, country: { type: "text", nullable: true }, population: { type: "bigint", nullable: true } },
});
const Person = new EntitySchema({
  name: "Person", tableName: "people_released",
  columns: {
    id: { type: "int", primary: true }, name: { type: "text" }, born: { type: "date", nullable: true }, seen: { type: "timestamp" },
    income: { type: "numeric" }, active: { type: "boolean" }, city: { type: "text" },
  },
});

tell(async () => {
  const { user, ...rest } = settings;
  const source = new DataSource({ type: "postgres", ...rest, username: user, entities: [City, Person], installExtensions: false });
  await source.initialize();
  const cities = source.getRepository(City);
  const people = source.getRepository(Person);
  const same = {
    all: await cities.find({ order: { city: "ASC" } }),
    one: await people.findOneBy({ id: 7 }),
    where: await people.find({ select: { id: true }, where: { id: In([8, 9, 10]), born: Not(IsNull()) }, order: { id: "ASC" } }),
    like: await people.count({ where: { name: Not(Like("person 9%")) } }),
    page: await people.findAndCount({ select: { id: true }, order: { id: "ASC" }, skip: 5, take: 2 }),
    built: await people.createQueryBuilder("p").select("p.city", "city").addSelect("COUNT(*)", "n").where("p.id < :most", { most: 100 }).groupBy("p.city").orderBy("p.city").getRawMany(),
    raw: await source.query("SELECT city FROM cities WHERE city IN ($1,$2) ORDER BY 1", ["Athens", "Berlin"]),
  };
  const runner = source.createQueryRunner();
  const table = await runner.getTable("cities");
  same.table = table.columns.map((column) => [column.name, column.type, column.isNullable, column.isPrimary]);
  same.schema = [await runner.getCurrentSchema(), await runner.getCurrentDatabase(), await runner.hasTable("cities")];
  await runner.release();
  const noisy = await source.query("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward");
  await source.destroy();
  return { same, noisy: noisy.map((row) => [row.ward, typeof row.n]) };
});
