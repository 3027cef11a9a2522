import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;

/** An owner with pgjdbc: publish, refresh, look at what was released, and ask what would be. */
public class OwnerSql {
    public static void main(String[] arguments) throws Exception {
        String create = System.getenv("OWNER_CREATE");
        try (Connection made = DriverManager.getConnection(
                System.getenv("OWNER_URL"), "olga", System.getenv("OWNER_PASSWORD"))) {
            try (Statement statement = made.createStatement()) {
                statement.execute(create);
                System.out.println("warning " + statement.getWarnings().getMessage());
                statement.executeUpdate("REFRESH MATERIALIZED VIEW research.by_jdbc");
            }
            made.setAutoCommit(false);
            try (PreparedStatement asked = made.prepareStatement(
                    "SELECT release, version, holds FROM sqlanon.releases WHERE release = 'research.by_jdbc' "
                    + "ORDER BY version")) {
                asked.setFetchSize(1);
                try (ResultSet found = asked.executeQuery()) {
                    ResultSetMetaData columns = found.getMetaData();
                    StringBuilder said = new StringBuilder("columns");
                    for (int place = 1; place <= columns.getColumnCount(); place++) {
                        String kind = columns.getColumnTypeName(place).replace("text", "varchar");
                        said.append(" ").append(columns.getColumnName(place)).append(":").append(kind);
                    }
                    System.out.println(said);
                    while (found.next()) {
                        System.out.println(found.getString(1) + " " + found.getLong(2) + " " + found.getBoolean(3));
                    }
                }
            }
            made.commit();
            try (Statement statement = made.createStatement();
                    ResultSet plan = statement.executeQuery("EXPLAIN " + create.replace("by_jdbc", "by_jdbc_again"))) {
                plan.next();
                System.out.println("plan " + plan.getString(1));
            }
        }
    }
}
