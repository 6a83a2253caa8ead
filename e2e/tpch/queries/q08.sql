-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q8, national market share: NATION = BRAZIL, REGION = AMERICA, TYPE = ECONOMY ANODIZED STEEL.
with all_nations as (
  select year(o_orderdate) as o_year,
         l_extendedprice * (1 - l_discount) as volume,
         source.n_name as nation
  from part
  join lineitem on p_partkey = l_partkey
  join supplier on s_suppkey = l_suppkey
  join orders on l_orderkey = o_orderkey
  join customer on o_custkey = c_custkey
  join nation target on c_nationkey = target.n_nationkey
  join region on target.n_regionkey = r_regionkey
  join nation source on s_nationkey = source.n_nationkey
  where r_name = 'AMERICA'
    and o_orderdate between date '1995-01-01' and date '1996-12-31'
    and p_type = 'ECONOMY ANODIZED STEEL'
)
select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share
from all_nations
group by o_year
order by o_year
