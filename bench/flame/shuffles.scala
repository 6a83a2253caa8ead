// SPDX-License-Identifier: Apache-2.0
// Many small shuffles, for `driver.sh`: the driver has most of the work.
import org.apache.spark.HashPartitioner

val shuffles = sys.env("SHUFFLES").toInt
val maps = sys.env("MAPS").toInt
(1 to shuffles).foreach { _ =>
  val records = sc.parallelize(1 to maps, maps).map(number => (number % 7, number))
  assert(records.partitionBy(new HashPartitioner(4)).count() == maps)
}
System.exit(0)
