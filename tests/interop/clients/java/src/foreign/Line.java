package foreign;

/** Lines of JSON on standard output: members that are numbers or short texts. */
final class Line {
    private Line() { }

    /** Prints a line; {@code members} are names and values in turn, those that are null are left out. */
    static void say(String mode, String kind, Object... members) {
        StringBuilder line = new StringBuilder("{\"mode\":").append(quoted(mode)).append(",\"kind\":").append(quoted(kind));
        for (int i = 0; i < members.length; i += 2) {
            if (members[i + 1] != null) {
                line.append(',').append(quoted(members[i])).append(':');
                line.append(members[i + 1] instanceof Number ? members[i + 1].toString() : quoted(members[i + 1]));
            }
        }
        synchronized (Line.class) {
            System.out.println(line.append('}'));
            System.out.flush();
        }
    }

    private static String quoted(Object value) {
        StringBuilder text = new StringBuilder("\"");
        for (char each : value.toString().toCharArray()) {
            if (each < ' ' || each > '~' || each == '"' || each == '\\') {
                text.append(String.format("\\u%04x", (int) each));
            } else {
                text.append(each);
            }
        }
        return text.append('"').toString();
    }
}
