package peer;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin commands one after the other in one JVM: arguments separated by tabs per line of stdin, one JSON line per answer. */
public final class Shell {
    public static void main(String[] args) throws Exception {
        Util.emit(Util.row("type", "ready"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Util.emit(Util.row("type", "answer", "text", run(line.split("\t"))));
        }
    }

    private static String run(String[] command) {
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
        System.setOut(both);
        System.setErr(both);
        try {
            MQAdminStartup.main0(command, null);
        } finally {
            System.setOut(err);
            System.setErr(err);
        }
        return said.toString(StandardCharsets.UTF_8);
    }
}
