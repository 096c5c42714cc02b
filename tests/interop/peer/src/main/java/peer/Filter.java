package peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What Java brokers make of SQL92 expressions: a JSON line {expr, props} of stdin is answered by its verdict, "true",
 * "false", "null", "error" where evaluation fails or "illegal" where the expression does not compile.
 */
public final class Filter {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            Map<String, String> properties = new HashMap<>();
            asked.getJSONObject("props").forEach((name, value) -> properties.put(name, (String) value));
            judge(asked.getString("expr"), properties);
        }
    }

    private static void judge(String text, Map<String, String> properties) {
        String verdict;
        String why = null;
        Expression expression = null;
        try {
            expression = FilterFactory.INSTANCE.get(ExpressionType.SQL92).compile(text);
            verdict = String.valueOf(expression.evaluate(new MessageEvaluationContext(properties)));
        } catch (Throwable e) {
            verdict = expression == null ? "illegal" : "error";
            why = String.valueOf(e.getCause() == null ? e : e.getCause());
        }
        Util.emit(Util.row("verdict", verdict, "why", why));
    }
}
