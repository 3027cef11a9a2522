const { DataTypes, Op, QueryTypes, Sequelize, col, fn } = require("sequelize");
const { settings, tell } = require("./settings");

tell(async () => {
  const { database, user, password, ...rest } = settings;
  const db = new Sequelize(database, user, password, { ...rest, username: user, dialect: "postgres", logging: false });
  const City = db.define("cities", {
    city: { type: DataTypes.TEXT, primaryKey: true }, country: DataTypes.TEXT, population: DataTypes.BIGINT,
  }, { timestamps: false, freezeTableName: true });
  const Person = db.define("people_released", {
    id: { type: DataTypes.INTEGER, primaryKey: true }, name: DataTypes.TEXT, city: DataTypes.TEXT, born: DataTypes.DATEONLY,
    income: DataTypes.DECIMAL(10, 2), active: DataTypes.BOOLEAN,
  }, { timestamps: false, freezeTableName: true });
  const Visit = db.define("visits", {
    visit: { type: DataTypes.INTEGER, primaryKey: true }, ward: DataTypes.TEXT, cost: DataTypes.DOUBLE,
  }, { timestamps: false, freezeTableName: true });
  Person.belongsTo(City, { foreignKey: "city", as: "home" });
  await db.authenticate();
  const plain = (found) => found.map((each) => each.get({ plain: true }));
  const same = {
    all: plain(await City.findAll({ order: ["city"] })),
    one: (await Person.findByPk(7)).get({ plain: true }),
    where: plain(await Person.findAll({ attributes: ["id"], where: { id: { [Op.in]: [3, 4, 5] }, active: { [Op.not]: true } }, order: ["id"] })),
    like: await Person.count({ where: { name: { [Op.notLike]: "person 9%" }, born: { [Op.ne]: null } } }),
    sum: await City.sum("population"),
    max: await Person.max("income"),
    joined: plain(await Person.findAll({ where: { id: 2 }, include: ["home"] })).map((row) => row.home),
    replaced: await db.query("SELECT city FROM cities WHERE population > :least ORDER BY city", { replacements: { least: 1000000 }, type: QueryTypes.SELECT }),
    bound: await db.query("SELECT id FROM people_released WHERE id IN ($one,$two) ORDER BY id", { bind: { one: 1, two: 2 }, type: QueryTypes.SELECT }),
    tables: (await db.getQueryInterface().showAllTables()).map((each) => each.tableName ?? each).filter((name) => ["cities", "visits"].includes(name)).sort(),
    described: Object.entries(await db.getQueryInterface().describeTable("cities")).map(([name, each]) => [name, each.type, each.allowNull]),
  };
  same.transaction = await db.transaction(async (transaction) => City.count({ transaction }));
  const noisy = await Visit.findAll({ attributes: ["ward", [fn("COUNT", col("visit")), "n"]], group: ["ward"], order: ["ward"], raw: true });
  await db.close();
  return { same, noisy: noisy.map((row) => [row.ward, typeof row.n]) };
});
