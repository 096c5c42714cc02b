package peer;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many short commands in one JVM: "admin", "produce" or "consume" and its arguments, separated by tabs, per line of stdin. Each is
 * answered by its own JSON lines, if any, and one of type "answer" with the exit status and the text it printed.
 */
public final class Shell {
    public static void main(String[] args) throws Exception {
        Util.hurryShutdown();
        Util.hurryRebalance(); // before mqadmin, which takes the usual interval for all that come after it
        Util.emit(Util.row("type", "ready"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            String[] rest = Arrays.copyOfRange(words, 1, words.length);
            PrintStream err = System.err;
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            PrintStream both = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(both);
            System.setErr(both);
            int status = 1;
            try {
                status = run(words[0], rest);
            } catch (Exception e) {
                e.printStackTrace();
            } finally {
                System.setOut(err);
                System.setErr(err);
            }
            Util.emit(Util.row("type", "answer", "status", status, "text", said.toString(StandardCharsets.UTF_8)));
        }
    }

    private static int run(String verb, String[] args) throws Exception {
        switch (verb) {
            case "produce" -> {
                return Produce.run(args);
            }
            case "consume" -> {
                return Consume.run(args);
            }
            case "admin" -> MQAdminStartup.main0(args, null);
            default -> throw new IllegalArgumentException(verb);
        }
        return 0;
    }
}
