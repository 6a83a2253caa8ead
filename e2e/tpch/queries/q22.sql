-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q22, global sales opportunity: country codes 13, 31, 23, 29, 30, 18, 17.
with named as (
  select substring(c_phone, 1, 2) as cntrycode, c_custkey, c_acctbal
  from customer
  where substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17')
)
select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal
from named
where c_acctbal > (select avg(c_acctbal) from named where c_acctbal > 0.00)
  and not exists (select * from orders where o_custkey = c_custkey)
group by cntrycode
order by cntrycode
