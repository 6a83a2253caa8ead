// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * A rule for plans of Spark SQL, on the driver: reduce tasks run on the hosts of the services that
 * have their partitions. Spark loads these classes, by the name in `spark.sql.extensions`.
 */
package object sql
