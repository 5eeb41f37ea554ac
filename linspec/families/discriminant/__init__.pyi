from linspec.families.discriminant.directions import certify as certify
from linspec.families.discriminant.directions import directions_of as directions_of
from linspec.families.discriminant.directions import rounding_of as rounding_of
