// pgjdbc against a server: each check prints its name and "ok", or what is wrong.
// The server is in the environment (SUITE_URL, SUITE_USER, SUITE_PASSWORD, SUITE_SLOW): a password is on no command line.

import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.TimeZone;
import java.util.UUID;

public class Suite {
    static final String URL = System.getenv("SUITE_URL");
    static final String SLOW = System.getenv("SUITE_SLOW");
    static final String CODE = System.getenv("SUITE_CODE");  // the type of a column that was made as VARCHAR(12)
    static final List<String> NAMES = Arrays.asList("Ünïcödé ☃", "O'Brien", "back\\slash", "dou\"ble", "UPPER lower",
            "tab\tand\nline", "$1 %s {0}", "日本 🎈");

    interface Work {
        void run(Connection db) throws Exception;
    }

    static Connection connect(Map<String, String> options) throws SQLException {
        Properties given = new Properties();
        given.setProperty("user", System.getenv("SUITE_USER"));
        given.setProperty("password", System.getenv("SUITE_PASSWORD"));
        options.forEach(given::setProperty);
        return DriverManager.getConnection(URL, given);
    }

    static void check(String mode, Map<String, String> options, String name, Work work) {
        String said = "ok";
        try (Connection db = connect(options)) {
            work.run(db);
        } catch (Throwable error) {
            StackTraceElement[] trace = error.getStackTrace();
            String at = "";
            for (StackTraceElement each : trace) {
                if (each.getClassName().startsWith("Suite") && !each.getMethodName().startsWith("same")) {
                    at = " (line " + each.getLineNumber() + ")";
                    break;
                }
            }
            said = String.valueOf(error).replaceAll("\\s+", " ") + at;
        }
        System.out.println(name + "\t" + mode + "\t" + said);
    }

    static void same(Object expected, Object found) {
        if (!Objects.deepEquals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void refused(String state, Work work, Connection db) throws Exception {
        try {
            work.run(db);
        } catch (SQLException error) {
            same(state, error.getSQLState());
            return;
        }
        throw new AssertionError("no error " + state);
    }

    static List<String> column(ResultSet rows, String name) throws SQLException {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                found.add(rows.getString(name));
            }
        }
        return found;
    }

    static Object one(Connection db, String sql, Object... values) throws SQLException {
        try (PreparedStatement asked = db.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) {
                asked.setObject(i + 1, values[i]);
            }
            try (ResultSet rows = asked.executeQuery()) {
                rows.next();
                return rows.getObject(1);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8));
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        run("text", Map.of());
        run("binary", Map.of("prepareThreshold", "-1"));
        run("simple", Map.of("preferQueryMode", "simple"));
        run("cached", Map.of("preferQueryMode", "extendedCacheEverything"));
        once();
    }

    // ---- what is asked in every mode of the driver

    static void run(String mode, Map<String, String> options) {
        check(mode, options, "rows", Suite::rows);
        check(mode, options, "parameters", Suite::parameters);
        check(mode, options, "text_for_a_number", mode.equals("simple") ? db -> { } : Suite::textForANumber);
        check(mode, options, "values_come_back", db -> valuesComeBack(db, mode));
        check(mode, options, "kinds", Suite::kinds);
        check(mode, options, "fetch_size", db -> fetchSize(db, mode));
        check(mode, options, "transactions", Suite::transactions);
        check(mode, options, "errors", Suite::errors);
        check(mode, options, "batches_of_statements", Suite::batches);
        check(mode, options, "again_and_again", Suite::againAndAgain);
    }

    static void rows(Connection db) throws Exception {
        String sql = "SELECT id, name, born, height, income, active, seen, grade, code FROM people_released WHERE id = 9";
        try (Statement asked = db.createStatement(); ResultSet rows = asked.executeQuery(sql)) {
            ResultSetMetaData told = rows.getMetaData();
            same(9, told.getColumnCount());
            int[] types = {Types.INTEGER, Types.VARCHAR, Types.DATE, Types.DOUBLE, Types.NUMERIC, Types.BIT,
                    Types.TIMESTAMP, Types.SMALLINT, Types.VARCHAR};
            for (int i = 0; i < types.length; i++) {
                same(types[i], told.getColumnType(i + 1));
            }
            same(10, told.getPrecision(5));
            same(2, told.getScale(5));
            same("numeric", told.getColumnTypeName(5));
            rows.next();
            same(9, rows.getInt(1));
            same("person 9", rows.getString("name"));
            same(LocalDate.of(1950, 3, 5), rows.getObject("born", LocalDate.class));
            same(1.5 + 9 / 128.0, rows.getDouble("height"));
            same(new BigDecimal("110.25"), rows.getBigDecimal("income"));
            same(true, rows.getBoolean("active"));
            same(LocalDateTime.of(2024, 2, 29, 8, 59, 59, 500_000_000), rows.getObject("seen", LocalDateTime.class));
            same((short) 3, rows.getShort("grade"));
            same(false, rows.next());
        }
        try (Statement asked = db.createStatement()) {
            same(NAMES, column(asked.executeQuery("SELECT name FROM names ORDER BY no"), "name"));
            ResultSet none = asked.executeQuery("SELECT born FROM people_released WHERE id = 10");
            none.next();
            same(null, none.getDate(1));
            same(true, none.wasNull());
        }
    }

    static void parameters(Connection db) throws Exception {
        same("person 7", one(db, "SELECT name FROM people_released WHERE id = ?", 7));
        for (int i = 0; i < NAMES.size(); i++) {
            same(i, one(db, "SELECT no FROM names WHERE name = ?", NAMES.get(i)));
        }
        same(3L, one(db, "SELECT count(*) FROM people_released WHERE seen < ?",
                LocalDateTime.of(2024, 2, 29, 3, 0)));
        same(2L, one(db, "SELECT count(*) FROM people_released WHERE born < ?", LocalDate.of(1950, 1, 20)));
        same(4L, one(db, "SELECT count(*) FROM people_released WHERE income <= ?", new BigDecimal("49.00")));
        same(333L, one(db, "SELECT count(*) FROM people_released WHERE active = ?", true));
        same(3L, one(db, "SELECT count(*) FROM people_released WHERE seen < ?", Timestamp.valueOf("2024-02-29 03:00:00")));
        same(2L, one(db, "SELECT count(*) FROM people_released WHERE born < ?", Date.valueOf("1950-01-20")));
        try (PreparedStatement asked = db.prepareStatement("SELECT id FROM people_released WHERE id IN (?, ?) ORDER BY id")) {
            asked.setInt(1, 5);
            asked.setLong(2, 6L);
            same(Arrays.asList("5", "6"), column(asked.executeQuery(), "id"));
            asked.clearParameters();
            asked.setInt(1, 5);
            refused("22023", each -> asked.executeQuery(), db);
        }
    }

    // setString sends varchar, which PostgreSQL does not compare with a number; stringtype=unspecified leaves it open.
    static void textForANumber(Connection db) throws Exception {
        try (PreparedStatement asked = db.prepareStatement("SELECT name FROM people_released WHERE id = ?")) {
            asked.setString(1, "7");
            refused("42883", each -> asked.executeQuery(), db);
        }
        try (Connection open = connect(Map.of("stringtype", "unspecified"));
                PreparedStatement asked = open.prepareStatement("SELECT name FROM people_released WHERE id = ?")) {
            asked.setString(1, "7");
            same(List.of("person 7"), column(asked.executeQuery(), "name"));
            asked.setString(1, "seven");
            refused("22P02", each -> asked.executeQuery(), open);
        }
    }

    static void valuesComeBack(Connection db, String mode) throws Exception {
        Object[][] values = {
            {"int4", -5}, {"int8", Long.MIN_VALUE}, {"float8", 5e-324}, {"float4", 1.5f}, {"bool", true},
            {"text", "Ünïcödé ☃ ' \\"}, {"varchar", "日本"}, {"numeric", new BigDecimal("-1234567890123456789.000000001")},
            {"uuid", UUID.fromString("00112233-4455-6677-8899-aabbccddeeff")},
        };
        for (Object[] pair : values) {
            same(pair[1], one(db, "SELECT ?::" + pair[0], pair[1]));
        }
        if (mode.equals("simple")) {
            return;  // in which the driver writes no bytes and arrays
        }
        try (PreparedStatement asked = db.prepareStatement(
                "SELECT ?::date, ?::timestamp, ?::timestamptz, ?::bytea, ?::int4[], ?::text[], ?::json, ?::text, ?::time")) {
            OffsetDateTime zoned = OffsetDateTime.of(2024, 2, 29, 12, 0, 0, 0, ZoneOffset.ofHours(2));
            asked.setObject(1, LocalDate.of(2024, 2, 29));
            asked.setTimestamp(2, Timestamp.valueOf("2024-02-29 12:00:00.000001"));
            asked.setObject(3, zoned);
            asked.setBytes(4, new byte[] {0, -1, 39, 92});
            asked.setArray(5, db.createArrayOf("int4", new Integer[] {1, null, -3}));
            asked.setArray(6, db.createArrayOf("text", new String[] {"a", "b\"c,", "", "NULL", null}));
            asked.setObject(7, "{\"a\": 1}", Types.OTHER);
            asked.setNull(8, Types.VARCHAR);
            asked.setObject(9, LocalTime.of(23, 59, 59));
            for (int turn = 0; turn < 2; turn++) {
                ResultSet rows = asked.executeQuery();
                rows.next();
                same(Date.valueOf("2024-02-29"), rows.getDate(1));
                same(Timestamp.valueOf("2024-02-29 12:00:00.000001"), rows.getTimestamp(2));
                same(zoned.toInstant(), rows.getObject(3, OffsetDateTime.class).toInstant());
                same(true, Arrays.equals(new byte[] {0, -1, 39, 92}, rows.getBytes(4)));
                same(new Integer[] {1, null, -3}, rows.getArray(5).getArray());
                Array texts = rows.getArray(6);
                same(new String[] {"a", "b\"c,", "", "NULL", null}, texts.getArray());
                same("text", texts.getBaseTypeName());
                same("{\"a\": 1}", rows.getString(7));
                same(null, rows.getString(8));
                same(Time.valueOf("23:59:59"), rows.getTime(9));
            }
        }
    }

    // Every type as it comes from a table: as text, or as bytes where the driver asks for them.
    static void kinds(Connection db) throws Exception {
        String sql = "SELECT i2, i4, i8, num, f4, f8, flag, txt, vc, d, t, ts, tz, iv, u, raw, js, ia, ta FROM kinds ORDER BY id";
        try (PreparedStatement asked = db.prepareStatement(sql); ResultSet rows = asked.executeQuery()) {
            rows.next();
            same((short) -32768, rows.getShort(1));
            same(Integer.MIN_VALUE, rows.getInt(2));
            same(Long.MIN_VALUE, rows.getLong(3));
            same(new BigDecimal("-1234567890123456.7891"), rows.getBigDecimal(4));
            same(-1.5f, rows.getFloat(5));
            same(2.5e-300, rows.getDouble(6));
            same(true, rows.getBoolean(7));
            same("Ünïcödé ☃", rows.getString(8));
            same("short", rows.getString(9));
            same(LocalDate.of(44, 3, 15), rows.getObject(10, LocalDate.class));
            same(LocalTime.MIDNIGHT, rows.getObject(11, LocalTime.class));
            same(LocalDateTime.of(1900, 1, 1, 0, 0), rows.getObject(12, LocalDateTime.class));
            same(OffsetDateTime.of(1999, 12, 31, 23, 59, 59, 999_999_000, ZoneOffset.UTC).toInstant(),
                    rows.getObject(13, OffsetDateTime.class).toInstant());
            org.postgresql.util.PGInterval span = (org.postgresql.util.PGInterval) rows.getObject(14);
            same(Arrays.asList(1, 2, 3, 0), Arrays.asList(span.getYears(), span.getMonths(), span.getDays(), span.getHours()));
            same(UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"), rows.getObject(15));
            same(true, Arrays.equals(new byte[] {0, -1, 39, 92}, rows.getBytes(16)));
            same("{\"a\": [1, null, \"ü\"]}", rows.getString(17));
            same(new Integer[] {1, null, -3}, rows.getArray(18).getArray());
            same(new String[] {"a", "b\"c,", ""}, rows.getArray(19).getArray());
            rows.next();
            same((short) 32767, rows.getShort(1));
            same(Integer.MAX_VALUE, rows.getInt(2));
            same(Long.MAX_VALUE, rows.getLong(3));
            same(new BigDecimal("0.0001"), rows.getBigDecimal(4));
            same(16777216f, rows.getFloat(5));
            same(1e300, rows.getDouble(6));
            same(false, rows.getBoolean(7));
            same("", rows.getString(8));
            same("exactly twenty chars", rows.getString(9));
            same(LocalDate.of(9999, 12, 31), rows.getObject(10, LocalDate.class));
            same(LocalTime.of(23, 59, 59, 999_999_000), rows.getObject(11, LocalTime.class));
            same(LocalDateTime.of(2038, 1, 19, 3, 14, 8, 1_000), rows.getObject(12, LocalDateTime.class));
            same(OffsetDateTime.of(2024, 2, 29, 10, 0, 0, 0, ZoneOffset.UTC).toInstant(),
                    rows.getObject(13, OffsetDateTime.class).toInstant());
            span = (org.postgresql.util.PGInterval) rows.getObject(14);
            same(Arrays.asList(-1, 2, 3, 4.5), Arrays.asList(span.getDays(), span.getHours(), span.getMinutes(), span.getSeconds()));
            same(new UUID(-1, -1), rows.getObject(15));
            same(0, rows.getBytes(16).length);
            same("null", rows.getString(17));
            same(new Integer[] {Integer.MAX_VALUE}, rows.getArray(18).getArray());
            same(new String[] {"NULL", "ä"}, rows.getArray(19).getArray());
            rows.next();
            for (int i = 1; i <= 19; i++) {
                same(null, rows.getObject(i));
            }
            same(false, rows.next());
        }
    }

    static void fetchSize(Connection db, String mode) throws Exception {
        db.setAutoCommit(false);
        try (PreparedStatement asked = db.prepareStatement("SELECT id FROM people_released WHERE id > ? ORDER BY id")) {
            asked.setInt(1, 0);
            asked.setFetchSize(30);
            int count = 0;
            try (ResultSet rows = asked.executeQuery()) {
                while (rows.next()) {
                    same(++count, rows.getInt(1));
                    if (count == 50) {
                        same(5L, one(db, "SELECT count(*) FROM cities"));  // between two fetches
                    }
                }
            }
            same(1000, count);
            if (!mode.equals("simple")) {  // in which the driver has no limit to send
                asked.setMaxRows(3);
                same(3, column(asked.executeQuery(), "id").size());
            }
        }
        String private_ = "SELECT ward, count(*) AS n FROM visits WHERE cost < 13.5 GROUP BY ward ORDER BY ward";
        try (Statement asked = db.createStatement()) {
            asked.setFetchSize(1);
            same(Arrays.asList("w0", "w1", "w2", "w3"), column(asked.executeQuery(private_), "ward"));
        }
        db.commit();
    }

    static void transactions(Connection db) throws Exception {
        db.setAutoCommit(false);
        same(1, one(db, "SELECT 1"));
        refused("42703", each -> one(each, "SELECT nothing"), db);
        refused("25P02", each -> one(each, "SELECT 1"), db);
        db.rollback();
        same(1, one(db, "SELECT 1"));
        db.commit();
        db.setAutoCommit(true);
        db.setReadOnly(true);
        db.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        db.setAutoCommit(false);
        same("repeatable read", one(db, "SHOW transaction_isolation"));
        db.commit();
        same(true, db.isValid(5));
        same("public", db.getSchema());
        db.setSchema("public");
        same("warehouse", db.getCatalog());
    }

    static void errors(Connection db) throws Exception {
        refused("42P01", each -> one(each, "SELECT 1 FROM nowhere"), db);
        refused("42601", each -> one(each, "SELEC 1"), db);
        refused("42703", each -> one(each, "SELECT nothing FROM cities"), db);
        same(1, one(db, "SELECT 1"));
        try (Statement asked = db.createStatement()) {
            asked.executeUpdate("DELETE FROM cities");
            throw new AssertionError("DELETE went through");
        } catch (SQLException error) {
            same(5, error.getSQLState().length());
        }
        same(5L, one(db, "SELECT count(*) FROM cities"));
    }

    static void batches(Connection db) throws Exception {
        try (Statement asked = db.createStatement()) {
            same(true, asked.execute("SELECT 1; SELECT 2 AS b; SELECT 'a;b'"));
            for (String expected : new String[] {"1", "2", "a;b"}) {
                ResultSet rows = asked.getResultSet();
                rows.next();
                same(expected, rows.getString(1));
                asked.getMoreResults();
            }
            same(false, asked.execute("SET TimeZone TO 'UTC'"));
            same(false, asked.execute(""));
        }
    }

    static void againAndAgain(Connection db) throws Exception {
        try (PreparedStatement asked = db.prepareStatement("SELECT name, born, ? AS given FROM people_released WHERE id = ?")) {
            for (int i = 1; i <= 12; i++) {  // the driver names the statement, and asks for binary, after the fifth
                asked.setString(1, "ü" + i);
                asked.setInt(2, i);
                ResultSet rows = asked.executeQuery();
                rows.next();
                same("person " + i, rows.getString(1));
                same("ü" + i, rows.getString(3));
            }
        }
    }

    // ---- what is asked once

    static void once() {
        Map<String, String> plain = Map.of("ApplicationName", "suite");
        check("once", plain, "tables", Suite::tables);
        check("once", plain, "columns", Suite::columns);
        check("once", plain, "keys", Suite::keys);
        check("once", plain, "type_info", Suite::typeInfo);
        check("once", plain, "schemas", Suite::schemas);
        check("once", plain, "parameter_metadata", Suite::parameterMetadata);
        check("once", plain, "query_timeout", Suite::queryTimeout);
        check("once", plain, "cancel", Suite::cancel);
        check("once", plain, "copy_out", Suite::copyOut);
        check("once", plain, "session", Suite::session);
        check("once", plain, "savepoints", Suite::savepoints);
        check("once", plain, "who_is_not_let_in", db -> whoIsNotLetIn());
    }

    static void tables(Connection db) throws Exception {
        DatabaseMetaData told = db.getMetaData();
        List<String> tables = column(told.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
        same(true, tables.containsAll(Arrays.asList("cities", "people_released", "visits", "Odd Näme")));
        same(List.of("cities"), column(told.getTables(null, null, "cit%", new String[] {"TABLE"}), "TABLE_NAME"));
        same(List.of(), column(told.getTables(null, "public", "nothing", null), "TABLE_NAME"));
        same(true, column(told.getTables("warehouse", "public", "greek_cities", null), "TABLE_NAME").contains("greek_cities"));
        same(true, column(told.getTableTypes(), "TABLE_TYPE").containsAll(Arrays.asList("TABLE", "VIEW")));
        same(true, column(told.getTables(null, "pg_catalog", "pg_class", null), "TABLE_NAME").contains("pg_class"));
    }

    static void columns(Connection db) throws Exception {
        DatabaseMetaData told = db.getMetaData();
        List<String> found = new ArrayList<>();
        try (ResultSet rows = told.getColumns(null, "public", "people_released", "%")) {
            while (rows.next()) {
                found.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME") + " " + rows.getInt("DATA_TYPE")
                        + " " + rows.getString("IS_NULLABLE") + " " + rows.getInt("ORDINAL_POSITION"));
            }
        }
        same(Arrays.asList("id int4 4 NO 1", "name text 12 NO 2", "city text 12 YES 3", "born date 91 YES 4",
                "height float8 8 YES 5", "income numeric 2 YES 6", "active bool -7 YES 7", "seen timestamp 93 YES 8",
                "grade int2 5 YES 9", "code " + CODE + " 12 YES 10"), found);
        try (ResultSet rows = told.getColumns(null, null, "people_released", "income")) {
            rows.next();
            same(10, rows.getInt("COLUMN_SIZE"));
            same(2, rows.getInt("DECIMAL_DIGITS"));
        }
        same(Arrays.asList("Id", "two words", "select"), column(told.getColumns(null, null, "Odd Näme", null), "COLUMN_NAME"));
    }

    static void keys(Connection db) throws Exception {
        DatabaseMetaData told = db.getMetaData();
        same(List.of("id"), column(told.getPrimaryKeys(null, "public", "people_released"), "COLUMN_NAME"));
        same(List.of("city"), column(told.getImportedKeys(null, "public", "people_released"), "FKCOLUMN_NAME"));
        same(List.of("people_released"), column(told.getExportedKeys(null, "public", "cities"), "FKTABLE_NAME"));
        same(List.of("no"), column(told.getPrimaryKeys(null, null, "names"), "COLUMN_NAME"));
        same(true, column(told.getIndexInfo(null, "public", "names", true, true), "COLUMN_NAME").contains("name"));
        same(List.of("id"), column(told.getBestRowIdentifier(null, "public", "people_released", 0, true), "COLUMN_NAME"));
    }

    static void typeInfo(Connection db) throws Exception {
        DatabaseMetaData told = db.getMetaData();
        List<String> names = column(told.getTypeInfo(), "TYPE_NAME");
        same(true, names.containsAll(Arrays.asList("int2", "int4", "int8", "numeric", "float8", "bool", "text", "varchar",
                "date", "time", "timestamp", "timestamptz", "interval", "uuid", "bytea", "json", "jsonb", "_int4", "_text")));
    }

    static void schemas(Connection db) throws Exception {
        DatabaseMetaData told = db.getMetaData();
        same(true, column(told.getSchemas(), "TABLE_SCHEM").containsAll(Arrays.asList("public", "pg_catalog")));
        same(true, column(told.getCatalogs(), "TABLE_CAT").contains("warehouse"));
        same("PostgreSQL", told.getDatabaseProductName());
        same(true, told.getDatabaseMajorVersion() >= 13);
        same(System.getenv("SUITE_USER"), told.getUserName());
        same(List.of(), column(told.getProcedures(null, "public", "nothing%"), "PROCEDURE_NAME"));
        same(List.of(), column(told.getFunctions(null, "public", "nothing%"), "FUNCTION_NAME"));
        column(told.getTablePrivileges(null, "public", "cities"), "PRIVILEGE");
        column(told.getColumnPrivileges(null, "public", "cities", "%"), "PRIVILEGE");
        same(List.of(), column(told.getUDTs(null, null, "nothing", null), "TYPE_NAME"));
        same(true, told.getMaxColumnNameLength() > 0);
        same(true, told.getSQLKeywords().length() >= 0);
        same(true, column(told.getClientInfoProperties(), "NAME").contains("ApplicationName"));
    }

    static void parameterMetadata(Connection db) throws Exception {
        String sql = "SELECT count(*) FROM people_released WHERE id = ? AND name = ? AND born < ? AND income > ?";
        try (PreparedStatement asked = db.prepareStatement(sql)) {
            ParameterMetaData told = asked.getParameterMetaData();
            same(4, told.getParameterCount());
            String[] types = {"int4", "text", "date", "numeric"};
            for (int i = 0; i < types.length; i++) {
                same(types[i], told.getParameterTypeName(i + 1));
            }
            same(Types.INTEGER, told.getParameterType(1));
            same("java.lang.Integer", told.getParameterClassName(1));
            same("count", asked.getMetaData().getColumnName(1));
        }
        try (PreparedStatement asked = db.prepareStatement("SELECT avg(cost) FROM visits WHERE cost > ? AND ward = ?")) {
            same("float8", asked.getParameterMetaData().getParameterTypeName(1));
            same("float8", asked.getMetaData().getColumnTypeName(1));
        }
    }

    static void queryTimeout(Connection db) throws Exception {
        try (Statement asked = db.createStatement()) {
            asked.setQueryTimeout(1);
            long least = Long.MAX_VALUE;  // a busy machine may hold up some of them
            for (int turn = 0; turn < 6 && least >= 1600; turn++) {
                long started = System.nanoTime();
                refused("57014", each -> asked.executeQuery(SLOW), db);
                least = Math.min(least, (System.nanoTime() - started) / 1_000_000);
            }
            if (least <= 900 || least >= 1600) {
                throw new AssertionError("the timeout of a second took " + least + " ms");
            }
        }
        same(1, one(db, "SELECT 1"));
    }

    static void cancel(Connection db) throws Exception {
        long least = Long.MAX_VALUE;
        for (int turn = 0; turn < 6 && least >= 500; turn++) {
            least = Math.min(least, cancelled(db));
            same(1, one(db, "SELECT 1"));
        }
        if (least >= 500) {
            throw new AssertionError("the cancel took " + least + " ms");
        }
    }

    static long cancelled(Connection db) throws Exception {
        try (Statement asked = db.createStatement()) {
            long[] when = new long[1];
            Thread other = new Thread(() -> {
                try {
                    Thread.sleep(400);
                    when[0] = System.nanoTime();
                    asked.cancel();
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
            });
            other.start();
            refused("57014", each -> asked.executeQuery(SLOW), db);
            long spent = (System.nanoTime() - when[0]) / 1_000_000;
            other.join();
            return spent;
        }
    }

    static void copyOut(Connection db) throws Exception {
        org.postgresql.copy.CopyManager copies = db.unwrap(org.postgresql.PGConnection.class).getCopyAPI();
        java.io.StringWriter written = new java.io.StringWriter();
        long rows = copies.copyOut("COPY (SELECT city, country FROM cities ORDER BY city) TO STDOUT WITH CSV HEADER", written);
        same(5L, rows);
        same("city,country", written.toString().lines().findFirst().get());
        same(1, one(db, "SELECT 1"));
    }

    static void session(Connection db) throws Exception {
        same("suite", one(db, "SHOW application_name"));
        same("UTC", one(db, "SHOW TimeZone"));
        db.setClientInfo("ApplicationName", "another");
        same("another", one(db, "SELECT current_setting('application_name')"));
        same(System.getenv("SUITE_USER"), one(db, "SELECT current_user"));
        same(null, db.getWarnings());
    }

    static void savepoints(Connection db) throws Exception {
        db.setAutoCommit(false);
        java.sql.Savepoint here;
        try {
            here = db.setSavepoint();
        } catch (SQLException error) {
            same("0A000", error.getSQLState());  // refused as a whole, which PostgreSQL does not
            db.rollback();
            return;
        }
        refused("42703", each -> one(each, "SELECT nothing"), db);
        db.rollback(here);
        same(1, one(db, "SELECT 1"));
        db.commit();
    }

    static void whoIsNotLetIn() throws Exception {
        refused("28P01", each -> connect(Map.of("password", "wrong")).close(), null);
        refused("28P01", each -> connect(Map.of("user", "nobody")).close(), null);
        Properties given = new Properties();
        given.setProperty("user", System.getenv("SUITE_USER"));
        given.setProperty("password", System.getenv("SUITE_PASSWORD"));
        refused("3D000", each -> DriverManager.getConnection(URL.replace("warehouse", "elsewhere"), given).close(), null);
    }
}
