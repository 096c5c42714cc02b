"""What Spark runs on: Java, a compiled home, caches, Python workers."""
