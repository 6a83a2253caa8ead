// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.driver

import org.apache.spark.SparkEnv

/** What to say where classes of this jar meet those of another one: they have the same names only. */
private[lodestone] object TwoCopies {
  val Problem: String =
    "there are two copies of the Lodestone jar: keep one, on the class path of driver and executors"

  /** A message of the driver is of a class that is not this one, though it has its name. */
  def ofMessages(ours: Class[_]): String = {
    val sparks = Class.forName(ours.getName, false, classOf[SparkEnv].getClassLoader)
    s"$Problem. Spark has read a message of the driver with a class of ${placeOf(sparks)}, and " +
      s"the shuffle manager is of ${placeOf(ours)}"
  }

  def placeOf(which: Class[_]): String = {
    val source = Option(which.getProtectionDomain.getCodeSource).flatMap(s => Option(s.getLocation))
    s"${source.fold("an unknown place")(_.toString)} (class loader ${which.getClassLoader})"
  }
}
