package peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * How Java servers and clients read JSON bodies and header fields. A line of stdin is a class below
 * org.apache.rocketmq, a tab, and base64 of JSON; the answer is a JSON line with the value written again ("value"), or
 * with what was thrown ("error"). For a header class, the JSON is the map of its fields.
 */
public final class Json {
    private static final JSONWriter.Feature[] SORTED = {
        JSONWriter.Feature.SortMapEntriesByKeys, JSONWriter.Feature.WriteEnumsUsingName
    };

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            byte[] json = Base64.getDecoder().decode(words[1]);
            try {
                Class<?> type = Class.forName("org.apache.rocketmq." + words[0]);
                Util.emit(Util.row("value", JSON.toJSONString(read(type, json), SORTED)));
            } catch (Throwable e) {
                Util.emit(Util.row("error", e.getClass().getSimpleName() + ": " + e.getMessage()));
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Object read(Class<?> type, byte[] json) throws Exception {
        if (!CommandCustomHeader.class.isAssignableFrom(type)) {
            return JSON.parseObject(json, type);  // as RemotingSerializable.decode
        }
        RemotingCommand command = RemotingCommand.createRequestCommand(0, null);
        Map<String, String> fields = new HashMap<>();
        JSON.parseObject(json).forEach((name, value) -> fields.put(name, (String) value));
        command.setExtFields((HashMap<String, String>) fields);
        return command.decodeCommandCustomHeader((Class<? extends CommandCustomHeader>) type);
    }
}
