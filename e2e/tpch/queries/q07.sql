-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q7, volume shipping: NATION1 = FRANCE, NATION2 = GERMANY.
with shipping as (
  select source.n_name as supp_nation,
         target.n_name as cust_nation,
         year(l_shipdate) as l_year,
         l_extendedprice * (1 - l_discount) as volume
  from supplier
  join lineitem on s_suppkey = l_suppkey
  join orders on o_orderkey = l_orderkey
  join customer on c_custkey = o_custkey
  join nation source on s_nationkey = source.n_nationkey
  join nation target on c_nationkey = target.n_nationkey
  where l_shipdate between date '1995-01-01' and date '1996-12-31'
    and ((source.n_name = 'FRANCE' and target.n_name = 'GERMANY')
      or (source.n_name = 'GERMANY' and target.n_name = 'FRANCE'))
)
select supp_nation, cust_nation, l_year, sum(volume) as revenue
from shipping
group by supp_nation, cust_nation, l_year
order by supp_nation, cust_nation, l_year
