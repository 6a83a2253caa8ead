-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q11, important stock identification: NATION = GERMANY, FRACTION = 0.0001 (that of scale factor 1).
with stock as (
  select ps_partkey, ps_supplycost * ps_availqty as cost
  from partsupp
  join supplier on ps_suppkey = s_suppkey
  join nation on s_nationkey = n_nationkey
  where n_name = 'GERMANY'
)
select ps_partkey, sum(cost) as value
from stock
group by ps_partkey
having sum(cost) > (select sum(cost) * 0.0001 from stock)
order by value desc
