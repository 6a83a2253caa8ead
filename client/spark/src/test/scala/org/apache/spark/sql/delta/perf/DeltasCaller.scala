// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.delta.perf

/** Code in a package of Delta, which has its packages below Spark's. */
object DeltasCaller {
  def apply[T](work: => T): T = work
}
