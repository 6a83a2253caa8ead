// SPDX-License-Identifier: Apache-2.0

import java.util.jar.JarFile;

/** Has the JVM verify every class of a jar against the class path that it runs with. */
final class VerifyAll {
  public static void main(String[] arguments) throws Exception {
    ClassLoader loader = VerifyAll.class.getClassLoader();
    int verified = 0;
    try (JarFile jar = new JarFile(arguments[0])) {
      for (var entry : (Iterable<java.util.jar.JarEntry>) jar.stream()::iterator) {
        if (entry.getName().endsWith(".class")) {
          String name = entry.getName().replace(".class", "").replace('/', '.');
          // Asking for its methods links a class, and linking verifies it.
          Class.forName(name, false, loader).getDeclaredMethods();
          verified += 1;
        }
      }
    }
    System.out.println(verified);
  }
}
