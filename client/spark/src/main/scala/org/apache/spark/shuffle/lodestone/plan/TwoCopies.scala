// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

/**
 * The error messages for two copies of the jar. Their classes have the same names, but two class
 * loaders loaded them, so Spark and the JVM do not take one for the other.
 */
private[lodestone] object TwoCopies {
  val Problem: String =
    "there are two copies of the Lodestone jar: keep one, on the class path of driver and executors"

  def jarOf(which: Class[_]): String = {
    val source = Option(which.getProtectionDomain.getCodeSource).flatMap(s => Option(s.getLocation))
    s"${source.fold("an unknown jar")(_.toString)} (class loader ${which.getClassLoader})"
  }
}
