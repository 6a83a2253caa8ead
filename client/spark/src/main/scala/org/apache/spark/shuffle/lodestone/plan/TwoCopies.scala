// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import scala.util.Try

import org.apache.spark.SparkEnv

/**
 * The error messages for two copies of the jar. Their classes have the same names, but two class
 * loaders loaded them, so Spark and the JVM do not take one for the other.
 */
private[lodestone] object TwoCopies {
  val Problem: String =
    "there are two copies of the Lodestone jar: keep one, on the class path of driver and executors"

  /** Returns a message if Spark reads the driver's messages with another class of this name. */
  def ofMessages(ours: Class[_]): Option[String] =
    Try(Class.forName(ours.getName, false, classOf[SparkEnv].getClassLoader)).toOption
      .filter(_ ne ours)
      .map { sparks =>
        s"$Problem. Spark has read a message of the driver with a class of ${jarOf(sparks)}, " +
          s"and the shuffle manager is of ${jarOf(ours)}"
      }

  def jarOf(which: Class[_]): String = {
    val source = Option(which.getProtectionDomain.getCodeSource).flatMap(s => Option(s.getLocation))
    s"${source.fold("an unknown jar")(_.toString)} (class loader ${which.getClassLoader})"
  }
}
