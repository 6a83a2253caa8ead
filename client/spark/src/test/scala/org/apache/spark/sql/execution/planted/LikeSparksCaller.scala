// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.planted

/** Code in a package of Spark, but in another jar. */
object LikeSparksCaller {
  def apply[T](work: => T): T = work
}
